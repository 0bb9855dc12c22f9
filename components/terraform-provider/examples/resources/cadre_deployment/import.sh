terraform import cadre_deployment.shop shop
