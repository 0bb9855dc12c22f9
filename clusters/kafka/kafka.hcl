# A group of Kafka nodes, each a controller and a broker. Change `release` and apply again: a rollout starts.
variable "cloud" {
  description = "path of the local cloud's cloud.json"
}

variable "context" {
  description = "path of the cluster's context file, which `cadre cluster create` wrote"
}

variable "agent_image" {
  description = "pinned image of cadre-agent"
}

variable "kafka_image" {
  description = "pinned image with Kafka and its adapter"
}

variable "jvm" {
  description = "flags of the Java runtime"
  default     = "-Xms512m -Xmx1g"
}

variable "release" {
  description = "any text: another one makes another revision"
  default     = "1"
}

variable "members" {
  description = "how many there are, at least three"
  default     = 3
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

group "kafka" {
  replicas = var.members

  template {
    compose = templatefile("compose/kafka.yaml", {
      agent_image = var.agent_image
      kafka_image = var.kafka_image
      jvm         = var.jvm
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
    max_unavailable_fixed = 1
    min_ready_seconds     = 5
    on_failure            = "PAUSE"
    healthy_deadline      = "5m"
    progress_deadline     = "20m"
  }

  preserved_state {
    disk = "data"
  }

  # The image's adapter knows Kafka. Its active controller cannot be handed over: the controllers elect when it stops.
  # A controller joins when it starts, and is removed once its CVM is gone.
  workload "custom" {
    http      = "127.0.0.1:9900"
    voters    = "true"
    set       = "changes"
    hand_over = "stop"
  }

  # Healing restarts a hanging Kafka in its CVM, and starts a stopped CVM again.
  auto_healing_policies {
    service           = "kafka"
    replace           = var.replace
    initial_delay_sec = var.heal_delay
  }
  restart_policy {
    window = var.heal_window
  }

  backend "kafka" {
    port  = 9092
    allow = ["kafka-app"]
  }

  # The controllers' port, for the group's own members.
  backend "controller" {
    port = 9093
  }
}
