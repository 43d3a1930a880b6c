"""What spark-submit runs; all of it is in ``aqueduct_jobs.publish``.

spark-submit --properties-file conf/spark-defaults.conf jobs/publish.py --config conf/publish.toml
"""

import sys

from aqueduct_jobs.publish import main

sys.exit(main())
