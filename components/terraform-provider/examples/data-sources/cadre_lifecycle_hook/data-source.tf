data "cadre_lifecycle_hook" "drain" {
  name         = "drain"
  transition   = "PRE_TERMINATE"
  max_duration = "5m"
  http {
    port = 8080
    path = "/drain"
  }
}

# resource "cadre_group" "api" { lifecycle_hook_json = [data.cadre_lifecycle_hook.drain.json] ... }
output "hook" {
  value = data.cadre_lifecycle_hook.drain.json
}
