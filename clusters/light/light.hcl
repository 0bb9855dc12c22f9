# A group of three small web servers, for the end-to-end tests. Change `release` and
# apply again: a rollout starts. A `port` that is not 8080 never becomes healthy.
variable "cloud" {
  description = "path of the local cloud's cloud.json"
}

variable "context" {
  description = "path of the cluster's context file, which `cadre cluster create` wrote"
}

variable "agent_image" {
  description = "pinned image of cadre-agent"
}

variable "light_image" {
  description = "image with Python; pinned, or the spec is refused"
}

variable "release" {
  description = "any text: another one makes another revision"
  default     = "1"
}

variable "replicas" {
  description = "number of slots"
  default     = "3"
}

variable "port" {
  description = "port that the service listens on; its health check asks 8080"
  default     = "8080"
}

variable "min_ready" {
  description = "how many seconds a slot must be available before it counts"
  default     = "1"
}

variable "max_unavailable" {
  description = "how many slots a rollout may take down at a time"
  default     = "1"
}

variable "healthy_deadline" {
  description = "how long a slot may take from the platform call to available"
  default     = "90s"
}

locals {
  cloud = jsondecode(file(var.cloud))
  # The trust of a workload CVM stands literally in its measured compose file. The cluster
  # ID in it excludes another set of coordinators of the same app.
  context = jsondecode(file(var.context))
  trust   = jsonencode(merge(local.context.trust, { cluster_id = local.context.cluster_id }))
}

group "light" {
  replicas = var.replicas

  template {
    compose = templatefile("../../compose/light.yaml", {
      agent_image = var.agent_image
      light_image = var.light_image
      release     = var.release
      port        = var.port
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
  }

  management_policy = "PARALLEL"

  update_policy {
    max_unavailable_fixed = var.max_unavailable
    max_surge_fixed       = 0
    min_ready_seconds     = var.min_ready
    healthy_deadline      = var.healthy_deadline
    progress_deadline     = "10m"
  }

  health_check "web" {
    http {
      port         = 8080
      request_path = "/index.html"
      expect       = "200"
    }
    check_interval_sec  = 1
    timeout_sec         = 1
    healthy_threshold   = 1
    unhealthy_threshold = 3
  }
}
