terraform import cadre_cluster.demo demo
