# A group of etcd members. Change `release` and apply again: a rollout starts. Change `members`:
# they come into the cluster, or leave it, one at a time.
variable "cloud" {
  description = "path of the local cloud's cloud.json"
}

variable "context" {
  description = "path of the cluster's context file, which `cadre cluster create` wrote"
}

variable "agent_image" {
  description = "pinned image of cadre-agent"
}

variable "etcd_image" {
  description = "pinned image with etcd"
}

variable "etcd_version" {
  description = "version of etcd in that image: the rollout knows by it which steps work and can be undone"
  default     = "3.6.16"
}

variable "release" {
  description = "any text: another one makes another revision"
  default     = "1"
}

variable "members" {
  description = "how many there are; an odd number tolerates the most"
  default     = 3
}

variable "surge" {
  description = "members that join for the time of a rollout, so that none of the others is missed"
  default     = 0
}

variable "replace" {
  description = "auto: a member whose CVM is gone gets another one by itself; ask: an operator replaces it"
  default     = "ask"
}

variable "heal_delay" {
  description = "seconds after a boot in which nothing that a member says of itself is healed, until it is ready"
  default     = 300
}

variable "heal_window" {
  description = "time of health after which attempts to heal are forgotten"
  default     = "1h"
}

locals {
  cloud = jsondecode(file(var.cloud))
  # The trust of a workload CVM stands literally in its measured compose file. The cluster
  # ID in it excludes another set of coordinators of the same app.
  context = jsondecode(file(var.context))
  trust   = jsonencode(merge(local.context.trust, { cluster_id = local.context.cluster_id }))
}

group "etcd" {
  replicas = var.members

  template {
    compose = templatefile("compose/etcd.yaml", {
      agent_image = var.agent_image
      etcd_image  = var.etcd_image
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

  # The first members need each other to form a quorum: none is ready alone.
  management_policy = "PARALLEL"

  update_policy {
    type                  = "PROACTIVE"
    max_unavailable_fixed = var.surge > 0 ? 0 : 1
    max_surge_fixed       = var.surge
    min_ready_seconds     = 3
    on_failure            = "PAUSE"
    healthy_deadline      = "5m"
    progress_deadline     = "20m"
  }

  preserved_state {
    disk = "data"
  }

  # The members' own ports, 2379 and 2380, follow from the workload.
  workload "etcd" {
    version = var.etcd_version
  }

  # /readyz needs seven seconds to say that there is no quorum, /health says so at once. A quota that is reached is left
  # out: the agent reports it, and a check that failed by it would fail the step of the larger quota too.
  health_check "ready" {
    http {
      port         = 2379
      request_path = "/health?exclude=NOSPACE"
      expect       = "200"
    }
    check_interval_sec  = 1
    timeout_sec         = 1
    healthy_threshold   = 1
    unhealthy_threshold = 3
  }

  # Healing restarts a hanging etcd in its CVM, and starts a stopped CVM again.
  auto_healing_policies {
    service           = "etcd"
    replace           = var.replace
    initial_delay_sec = var.heal_delay
  }
  restart_policy {
    window = var.heal_window
  }

  backend "etcd" {
    port  = 2379
    allow = ["etcd-app"]
  }
}
