# The demo's application: one CVM that writes to the database in three ways and measures.
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

variable "writers" {
  description = "writers of the way that names every member"
  default     = 4
}

variable "others" {
  description = "writers of each other way"
  default     = 2
}

variable "interval" {
  description = "time between two writes of one writer"
  default     = "20ms"
}

locals {
  cloud = jsondecode(file(var.cloud))
  # The trust of a workload CVM stands literally in its measured compose file. The cluster
  # ID in it excludes another set of coordinators of the same app.
  context = jsondecode(file(var.context))
  trust   = jsonencode(merge(local.context.trust, { cluster_id = local.context.cluster_id }))
}

group "app" {
  replicas = 1

  template {
    compose = templatefile("compose/app.yaml", {
      agent_image = var.agent_image
      load_image  = var.load_image
      trust       = local.trust
      dsn         = "postgres://app@postgres-0,postgres-1,postgres-2/app?target_session_attrs=read-write&sslmode=disable&connect_timeout=2"
      route_dsn   = "postgres://app@postgres-master/app?sslmode=disable&connect_timeout=5"
      writers     = var.writers
      others      = var.others
      interval    = var.interval
      pooled_dsn  = "postgres://app@postgres-pooled/app?sslmode=disable&connect_timeout=15"
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
