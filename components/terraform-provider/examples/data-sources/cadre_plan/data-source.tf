data "cadre_plan" "consul" {
  group = "consul"
}

output "next" {
  value = data.cadre_plan.consul.actions[*].text
}
