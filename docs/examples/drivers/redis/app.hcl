# The example's application: one CVM whose clients write to Redis, wait until a replica has each write, and
# look for every acknowledged write.
variable "cloud" {
  description = "path of the local cloud's cloud.json"
}

variable "context" {
  description = "path of the cluster's context file, which `cadre cluster create` wrote"
}

variable "agent_image" {
  description = "pinned image of cadre-agent"
}

variable "load_image" {
  description = "pinned image of cadre-load"
}

locals {
  cloud = jsondecode(file(var.cloud))
  # The trust of a workload CVM stands literally in its measured compose file. The cluster
  # ID in it excludes another set of coordinators of the same app.
  context = jsondecode(file(var.context))
  trust   = jsonencode(merge(local.context.trust, { cluster_id = local.context.cluster_id }))
}

group "redis-app" {
  replicas = 1

  template {
    compose = templatefile("app.yaml", {
      agent_image = var.agent_image
      load_image  = var.load_image
      trust       = local.trust
      endpoints   = "redis-0:26379,redis-1:26379,redis-2:26379"
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
    min_ready_seconds = 1
  }
}
