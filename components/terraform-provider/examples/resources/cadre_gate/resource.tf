# No rollout step begins in the shop's big days. The spec of the group declares the gate:
#
#   gate {
#     name    = "season"
#     on      = ["step", "remove"]
#     default = "open"
#   }
resource "cadre_gate" "season" {
  group  = "web"
  name   = "season"
  state  = "closed"
  reason = "the shop's big days"
  until  = "2026-11-30T00:00:00Z"
}
