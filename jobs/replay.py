"""What spark-submit runs; all of it is in ``aqueduct_jobs.replay``.

spark-submit --properties-file conf/spark-defaults.conf jobs/replay.py --config conf/replay.toml
"""

import sys

from aqueduct_jobs.replay import main

sys.exit(main())
