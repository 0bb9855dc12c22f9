terraform import cadre_group.consul consul
