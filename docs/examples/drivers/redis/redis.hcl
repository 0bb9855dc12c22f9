# A group of three Redis servers with Sentinels. Change `release` and apply again: a rollout starts.
variable "cloud" {
  description = "path of the local cloud's cloud.json"
}

variable "context" {
  description = "path of the cluster's context file, which `cadre cluster create` wrote"
}

variable "agent_image" {
  description = "pinned image of cadre-agent"
}

variable "redis_image" {
  description = "pinned image with redis-server, redis-cli and jq"
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

group "redis" {
  replicas = 3

  template {
    # A script of the measured text is a JSON string there. Two dollars are compose's way to write one.
    compose = templatefile("redis.yaml", {
      agent_image = var.agent_image
      redis_image = var.redis_image
      release     = var.release
      trust       = local.trust
      redis       = jsonencode(replace(file("redis.sh"), "$", "$$"))
      adapter     = jsonencode(replace(file("adapter.sh"), "$", "$$"))
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

  # No Sentinel alone can tell which server is the primary.
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

  # The commands of the service redis are the adapter. The Sentinels are the voters.
  workload "custom" {
    exec_service = "redis"
    voters       = true
    set          = "none"
    hand_over    = "transfer"
  }

  # Healing restarts a hanging server in its CVM, and starts a stopped CVM again.
  auto_healing_policies {
    service           = "redis"
    initial_delay_sec = 300
  }

  backend "client" {
    port  = 6379
    allow = ["redis-app"]
  }
  backend "sentinel" {
    port  = 26379
    allow = ["redis-app"]
  }
}
