terraform import 'cadre_instance.consul["1"]' consul-1
