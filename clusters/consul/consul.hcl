# Three Consul servers of a user's own, for `cadre group apply`: the group of main.tf. Change `release` or the image, and
# apply again.
variable "cloud" {
  description = "path of the local cloud's cloud.json"
}

variable "context" {
  description = "path of the cluster's context file, which `cadre cluster create` wrote"
}

variable "agent_image" {
  description = "pinned image of cadre-agent"
}

variable "consul_image" {
  description = "pinned image with Consul"
}

variable "consul_version" {
  description = "version of Consul in that image: the rollout knows by it which steps work and can be undone"
  default     = "1.22.7"
}

variable "release" {
  description = "any text: another one makes another revision"
  default     = "1"
}

variable "updates" {
  description = "OPPORTUNISTIC: a server takes a new revision by `cadre instance update`; PROACTIVE: all do, in order"
  default     = "OPPORTUNISTIC"
}

variable "clients" {
  description = "groups, separated by commas, whose members may use Consul's HTTP API"
  default     = ""
}

locals {
  cloud = jsondecode(file(var.cloud))
  # The trust of a workload CVM stands literally in its measured compose file. The cluster
  # ID in it excludes another set of coordinators of the same app.
  context = jsondecode(file(var.context))
  trust   = jsonencode(merge(local.context.trust, { cluster_id = local.context.cluster_id }))
}

group "consul" {
  replicas = 3

  template {
    compose = templatefile("compose/consul.yaml", {
      agent_image  = var.agent_image
      consul_image = var.consul_image
      release      = var.release
      trust        = local.trust
    })
    env = {
      CADRE_GATEWAY_DOMAIN  = local.cloud.gateway_domain
      CADRE_GATEWAY_ADDRESS = local.cloud.gateway_address_in_cvm
      CADRE_RENDEZVOUS      = local.cloud.rendezvous_url
      CADRE_RENDEZVOUS_CA   = local.cloud.rendezvous_ca_base64
    }
    instance_type = "tdx.small"
    os_image      = "dstack-0.5.7"
    disk_gb       = 20
  }

  # The first servers need each other to elect a leader: none is ready alone.
  management_policy = "PARALLEL"

  update_policy {
    type                  = var.updates
    max_unavailable_fixed = 1
    min_ready_seconds     = 5
    on_failure            = "PAUSE"
    healthy_deadline      = "5m"
  }

  # The driver knows the quorum and the leader.
  workload "consul" {
    http_addr = "127.0.0.1:8510"
    version   = var.consul_version
  }

  preserved_state {
    disk = "data"
  }

  # Made inside the coordinators, equal on all members, in memory only.
  secret "gossip" {
    bytes  = 32
    format = "base64"
    owner  = "65534:65534"
  }

  lifecycle_hook "hand-over" {
    transition        = "PRE_TERMINATE"
    heartbeat_timeout = "30s"
    max_duration      = "2m"
    default_result    = "HOLD"
    driver {
      do = "transfer"
    }
  }

  health_check "ready" {
    http {
      port         = 8510
      request_path = "/v1/status/leader"
    }
    check_interval_sec  = 2
    timeout_sec         = 2
    healthy_threshold   = 1
    unhealthy_threshold = 3
  }

  # Healing restarts a hanging server in its CVM, and starts a stopped CVM again.
  auto_healing_policies {
    health_check      = "ready"
    service           = "consul"
    initial_delay_sec = 60
  }

  # Members reach each other at all of these; 8300, 8301, 8500 to 8503 and 8600 are those of
  # Cadre's own Consul.
  backend "rpc" {
    port = 8310
  }
  backend "gossip" {
    port = 8311
  }
  backend "gossip-udp" {
    port     = 8311
    protocol = "udp"
  }
  backend "http" {
    port    = 8510
    address = "127.0.0.1"
    allow   = var.clients == "" ? [] : split(",", var.clients)
  }
}
