# Three members whose adapter hangs, floods or lies.
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
  description = "pinned image with a shell"
}

locals {
  cloud = jsondecode(file(var.cloud))
  # The trust of a workload CVM stands literally in its measured compose file. The cluster
  # ID in it excludes another set of coordinators of the same app.
  context = jsondecode(file(var.context))
  trust   = jsonencode(merge(local.context.trust, { cluster_id = local.context.cluster_id }))
}

group "bad" {
  replicas = 3

  template {
    compose = templatefile("bad.yaml", {
      agent_image = var.agent_image
      redis_image = var.redis_image
      trust       = local.trust
      bad         = jsonencode(replace(file("bad.sh"), "$", "$$"))
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

  workload "custom" {
    exec_service = "db"
    voters       = true
    hand_over    = "stop"
  }
}
