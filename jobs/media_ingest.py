"""What spark-submit runs; all of it is in ``aqueduct_jobs.media_ingest``.

spark-submit --properties-file conf/spark-defaults.conf jobs/media_ingest.py \
    --config conf/media_ingest.toml
"""

import sys

from aqueduct_jobs.media_ingest import main

sys.exit(main())
