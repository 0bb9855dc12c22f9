# The demo's public web server. Change `web_release` and apply again: a rollout starts.
variable "cloud" {
  description = "path of the local cloud's cloud.json"
}

variable "context" {
  description = "path of the cluster's context file, which `cadre cluster create` wrote"
}

variable "agent_image" {
  description = "pinned image of cadre-agent"
}

variable "webdemo_image" {
  description = "pinned image of webdemo"
}

variable "web_release" {
  description = "any text, which every answer shows: another one makes another revision"
  default     = "1"
}

locals {
  cloud = jsondecode(file(var.cloud))
  # The trust of a workload CVM stands literally in its measured compose file. The cluster
  # ID in it excludes another set of coordinators of the same app.
  context = jsondecode(file(var.context))
  trust   = jsonencode(merge(local.context.trust, { cluster_id = local.context.cluster_id }))
}

group "webdemo" {
  replicas = 2

  template {
    compose = templatefile("compose/webdemo.yaml", {
      agent_image   = var.agent_image
      webdemo_image = var.webdemo_image
      release       = var.web_release
      trust         = local.trust
    })
    env = {
      CADRE_GATEWAY_DOMAIN  = local.cloud.gateway_domain
      CADRE_GATEWAY_ADDRESS = local.cloud.gateway_address_in_cvm
      CADRE_RENDEZVOUS      = local.cloud.rendezvous_url
      CADRE_RENDEZVOUS_CA   = local.cloud.rendezvous_ca_base64
    }
    instance_type = "tdx.small"
    os_image      = "dstack-0.5.7"
  }

  update_policy {
    max_unavailable_fixed = 1
    min_ready_seconds     = 5
  }

  health_check "web" {
    http {
      port         = 8080
      request_path = "/healthz"
    }
    check_interval_sec = 2
    timeout_sec        = 2
  }

  # Members may call each other by the route since the group names itself.
  backend "web" {
    port    = 8080
    address = "127.0.0.1"
    allow   = ["webdemo"]
  }

  route "webdemo" {
    backend = "web"
  }
}
