terraform import cadre_secret.s3_key web/s3-key
