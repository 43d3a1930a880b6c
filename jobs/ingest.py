"""What spark-submit runs; all of it is in ``aqueduct_jobs.ingest``.

spark-submit --properties-file conf/spark-defaults.conf jobs/ingest.py --config conf/ingest.toml
"""

import sys

from aqueduct_jobs.ingest import main

sys.exit(main())
