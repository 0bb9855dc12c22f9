# A group of NATS servers with JetStream. Change `release` and apply again: a rollout starts.
variable "cloud" {
  description = "path of the local cloud's cloud.json"
}

variable "context" {
  description = "path of the cluster's context file, which `cadre cluster create` wrote"
}

variable "agent_image" {
  description = "pinned image of cadre-agent"
}

variable "nats_image" {
  description = "pinned image with nats-server and its adapter"
}

variable "release" {
  description = "any text: another one makes another revision"
  default     = "1"
}

locals {
  cloud = jsondecode(file(var.cloud))
  # The trust of a workload CVM stands literally in its measured compose file. The cluster
  # ID in it excludes another set of coordinators of the same app.
  context = jsondecode(file(var.context))
  trust   = jsonencode(merge(local.context.trust, { cluster_id = local.context.cluster_id }))
}

group "nats" {
  replicas = 3

  template {
    compose = templatefile("compose/nats.yaml", {
      agent_image = var.agent_image
      nats_image  = var.nats_image
      release     = var.release
      trust       = local.trust
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

  # The first servers need each other to elect a meta leader: none is ready alone.
  management_policy = "PARALLEL"

  update_policy {
    type                  = "PROACTIVE"
    max_unavailable_fixed = 1
    min_ready_seconds     = 3
    on_failure            = "PAUSE"
    healthy_deadline      = "5m"
    progress_deadline     = "20m"
  }

  preserved_state {
    disk = "data"
  }

  # The adapter knows the meta group, which votes, and the replicas of all streams.
  workload "custom" {
    http      = "127.0.0.1:9900"
    voters    = true
    set       = "changes"
    hand_over = "transfer"
  }

  # Made inside the coordinators, equal on all members, in memory only.
  secret "system" {
    bytes  = 32
    format = "hex"
    owner  = "65534:65534"
  }
  secret "app" {
    bytes  = 32
    format = "hex"
    owner  = "65534:65534"
  }

  health_check "ready" {
    http {
      port         = 8222
      request_path = "/healthz?js-enabled-only=true"
      expect       = "200"
    }
    check_interval_sec  = 1
    timeout_sec         = 1
    healthy_threshold   = 1
    unhealthy_threshold = 3
  }

  # Healing restarts a hanging server in its CVM, and starts a stopped CVM again.
  auto_healing_policies {
    service           = "nats"
    initial_delay_sec = 300
  }

  backend "client" {
    port  = 4222
    allow = ["nats-app"]
  }
  backend "route" {
    port = 6222
  }
}
