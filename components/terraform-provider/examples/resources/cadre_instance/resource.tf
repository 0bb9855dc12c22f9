# With update_policy.type = "OPPORTUNISTIC" in the group, this brings exactly one server to
# the new revision:
#
#   terraform apply -target='cadre_instance.consul["1"]'
resource "cadre_instance" "consul" {
  for_each = toset(["0", "1", "2"])
  group    = "consul"
  ordinal  = tonumber(each.key)
  revision = data.cadre_rollout.consul.target_revision
}

data "cadre_rollout" "consul" {
  group = "consul"
}

# A slot with settings of its own, which stays at its revision, and whose disk is never deleted.
resource "cadre_instance" "canary" {
  group                = "web"
  ordinal              = 2
  metadata             = { tier = "canary" }
  exclude_from_rollout = true
  preserved_state {
    disk = "data"
  }
}
