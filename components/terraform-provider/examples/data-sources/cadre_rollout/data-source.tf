data "cadre_rollout" "consul" {
  group = "consul"
}

check "consul_is_where_it_should_be" {
  assert {
    condition     = data.cadre_rollout.consul.complete
    error_message = data.cadre_rollout.consul.message
  }
}
