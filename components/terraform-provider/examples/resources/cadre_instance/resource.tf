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

# A slot that is out of service until its host is mended, and is updated by nobody meanwhile.
resource "cadre_instance" "mended" {
  group   = "db"
  ordinal = 1
  drain {
    reason = "its host gets memory"
  }
}

# A slot that stays in service while a copy of its disk runs.
resource "cadre_instance" "copied" {
  group   = "db"
  ordinal = 2
  protect {
    reason = "a copy runs"
  }
}

# A slot that is left as it is while somebody finds out why it breaks, and is healed again after that.
resource "cadre_instance" "looked_into" {
  group   = "db"
  ordinal = 0
  exclude {
    from   = ["healing"]
    reason = "its crashes are looked into"
    until  = "2026-05-04T14:00:00Z"
  }
}

# A slot that stays at a revision that is known to work, all 32 digits.
resource "cadre_instance" "kept" {
  group           = "web"
  ordinal         = 0
  pinned_revision = "7515dd5e0c1f4b7a9d2e6c83a41b5f60"
}

# A slot with another value of one name that env of its group's template has.
resource "cadre_instance" "louder" {
  group   = "web"
  ordinal = 1
  env     = { LOG_LEVEL = "debug" }
}
