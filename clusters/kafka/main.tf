# Kafka nodes, and producers: the specs of kafka.hcl and app.hcl.
terraform {
  required_version = ">= 1.11"
  required_providers {
    cadre = { source = "cadre.dev/cadre/cadre" }
  }
}

# Makes the coordinators; needs no cluster.
provider "cadre" {
  alias = "founder"
}

# Talks to them.
provider "cadre" {
  context_json = module.coordinators.context_json
  token        = module.coordinators.token
}

module "platform" {
  source = "../modules/platform"
  cloud  = var.cloud
  phala  = var.phala
}

module "coordinators" {
  source              = "../modules/coordinators"
  providers           = { cadre = cadre.founder }
  name                = var.name
  context             = var.context
  platform            = module.platform.facts
  image               = var.images.cadre-coordinator
  replicas            = var.coordinators
  deletion_protection = var.deletion_protection
}

resource "cadre_group" "kafka" {
  name                = "kafka"
  replicas            = var.members
  deletion_protection = var.deletion_protection
  # The first members need each other to form a quorum: none is ready alone.
  management_policy = "PARALLEL"

  template {
    compose = templatefile("compose/kafka.yaml", {
      agent_image = var.images.cadre-agent
      kafka_image = var.images.kafka
      jvm         = var.jvm
      release     = var.release
      trust       = module.coordinators.trust
    })
    env           = module.platform.env
    instance_type = "tdx.small"
    os_image      = module.platform.os_image
    disk_gb       = 20
  }

  update_policy {
    type                  = "PROACTIVE"
    max_unavailable_fixed = 1
    min_ready_seconds     = 5
    on_failure            = "PAUSE"
    healthy_deadline      = "5m"
    progress_deadline     = "20m"
  }

  # The image's adapter knows Kafka. Its active controller cannot be handed over: the controllers elect when it stops.
  # A controller joins when it starts, and is removed once its CVM is gone.
  workload {
    kind = "custom"
    settings = {
      http      = "127.0.0.1:9900"
      voters    = "true"
      set       = "changes"
      hand_over = "stop"
    }
  }

  preserved_state {
    disk = "data"
  }
  # Destroying is refused until they are given up, or the CVMs are to stay.
  delete_disks = var.delete_disks

  # Healing restarts a hanging Kafka in its CVM, and starts a stopped CVM again.
  auto_healing_policies {
    service           = "kafka"
    replace           = var.replace
    initial_delay_sec = var.heal_delay
  }
  restart_policy {
    window = var.heal_window
  }

  backend {
    name  = "kafka"
    port  = 9092
    allow = ["kafka-app"]
  }

  # The controllers' port, for the group's own members.
  backend {
    name = "controller"
    port = 9093
  }
}

# An application in a CVM of its own.
resource "cadre_group" "app" {
  name                = "kafka-app"
  replicas            = 1
  deletion_protection = var.deletion_protection

  template {
    compose = templatefile("compose/records.yaml", {
      agent_image = var.images.cadre-agent
      load_image  = var.images.load
      trust       = module.coordinators.trust
      endpoints   = "kafka-0:9092,kafka-1:9092,kafka-2:9092"
    })
    env           = module.platform.env
    instance_type = "tdx.small"
    os_image      = module.platform.os_image
  }

  update_policy {
    min_ready_seconds = 1
  }
}
