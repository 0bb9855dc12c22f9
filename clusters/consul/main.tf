# Three Consul servers of a user's own, updated one at a time: followers first, the leader
# last, after it handed its leadership over. Nothing of Cadre's own Consul is theirs. The group
# is that of consul.hcl.
terraform {
  required_version = ">= 1.11"
  required_providers {
    cadre = { source = "cadre.dev/cadre/cadre" }
  }
}

# Makes the coordinators; needs no cluster.
provider "cadre" {
  alias = "founder"
}

# Talks to them.
provider "cadre" {
  context_json = module.coordinators.context_json
  token        = module.coordinators.token
}

module "platform" {
  source = "../modules/platform"
  cloud  = var.cloud
  phala  = var.phala
}

module "coordinators" {
  source              = "../modules/coordinators"
  providers           = { cadre = cadre.founder }
  name                = var.name
  context             = var.context
  platform            = module.platform.facts
  image               = var.images.cadre-coordinator
  replicas            = var.coordinators
  deletion_protection = var.deletion_protection
}

resource "cadre_group" "consul" {
  name                = "consul"
  replicas            = 3
  deletion_protection = var.deletion_protection
  # The first servers need each other to elect a leader: none is ready alone.
  management_policy = "PARALLEL"

  template {
    compose = templatefile("compose/consul.yaml", {
      agent_image  = var.images.cadre-agent
      consul_image = var.images.consul
      release      = var.release
      trust        = module.coordinators.trust
    })
    env           = module.platform.env
    instance_type = "tdx.small"
    os_image      = module.platform.os_image
    disk_gb       = 20
  }

  # Each server takes a new revision when its cadre_instance is applied. updates = "PROACTIVE" rolls all of them in order.
  update_policy {
    type                  = var.updates
    max_unavailable_fixed = 1
    min_ready_seconds     = 5
    on_failure            = "PAUSE"
    healthy_deadline      = "5m"
  }

  # The driver knows the quorum and the leader.
  workload {
    kind     = "consul"
    settings = { http_addr = "127.0.0.1:8510", version = var.consul_version }
  }

  preserved_state {
    disk = "data"
  }
  # Destroying is refused until they are given up, or the CVMs are to stay.
  delete_disks = var.delete_disks

  # Made inside the coordinators, equal on all members, in memory only.
  secret {
    name   = "gossip"
    bytes  = 32
    format = "base64"
    owner  = "65534:65534"
  }

  lifecycle_hook {
    name              = "hand-over"
    transition        = "PRE_TERMINATE"
    heartbeat_timeout = "30s"
    max_duration      = "2m"
    default_result    = "HOLD"
    driver {
      do = "transfer"
    }
  }

  health_check {
    name = "ready"
    http {
      port         = 8510
      request_path = "/v1/status/leader"
    }
    check_interval_sec  = 2
    timeout_sec         = 2
    healthy_threshold   = 1
    unhealthy_threshold = 3
  }

  # A server that hangs, or whose check fails, is restarted in its CVM; a CVM that stopped is
  # started again.
  auto_healing_policies {
    health_check      = "ready"
    service           = "consul"
    initial_delay_sec = 60
  }

  # Members reach each other at all of these; 8300, 8301, 8500 to 8503 and 8600 are those of
  # Cadre's own Consul.
  backend {
    name = "rpc"
    port = 8310
  }
  backend {
    name = "gossip"
    port = 8311
  }
  backend {
    name     = "gossip-udp"
    port     = 8311
    protocol = "udp"
  }
  backend {
    name    = "http"
    port    = 8510
    address = "127.0.0.1"
    allow   = var.clients
  }
}

# One resource for each server: terraform apply -target='cadre_instance.consul["1"]'.
resource "cadre_instance" "consul" {
  for_each = toset(["0", "1", "2"])
  group    = cadre_group.consul.name
  ordinal  = tonumber(each.key)
  revision = cadre_group.consul.revision
}
