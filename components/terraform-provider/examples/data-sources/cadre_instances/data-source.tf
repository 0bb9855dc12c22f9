data "cadre_instances" "consul" {
  group = "consul"
}

output "addresses" {
  value = { for i in data.cadre_instances.consul.instances : i.slot => i.vip }
}
