"""What spark-submit runs; all of it is in ``aqueduct_jobs.bridge``.

spark-submit --properties-file conf/spark-defaults.conf jobs/bridge.py --config conf/bridge.toml
"""

import sys

from aqueduct_jobs.bridge import main

sys.exit(main())
