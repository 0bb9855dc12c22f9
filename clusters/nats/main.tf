# NATS servers with JetStream, and publishers: the specs of nats.hcl and app.hcl.
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

resource "cadre_group" "nats" {
  name                = "nats"
  replicas            = 3
  deletion_protection = var.deletion_protection
  # The first servers need each other to elect a meta leader: none is ready alone.
  management_policy = "PARALLEL"

  template {
    compose = templatefile("compose/nats.yaml", {
      agent_image = var.images.cadre-agent
      nats_image  = var.images.nats
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
    min_ready_seconds     = 3
    on_failure            = "PAUSE"
    healthy_deadline      = "5m"
    progress_deadline     = "20m"
  }

  # The adapter knows the meta group, which votes, and the replicas of all streams.
  workload {
    kind = "custom"
    settings = {
      http      = "127.0.0.1:9900"
      voters    = "true"
      set       = "changes"
      hand_over = "transfer"
    }
  }

  preserved_state {
    disk = "data"
  }
  # Destroying is refused until they are given up, or the CVMs are to stay.
  delete_disks = var.delete_disks

  # Made inside the coordinators, equal on all members, in memory only.
  secret {
    name   = "system"
    bytes  = 32
    format = "hex"
    owner  = "65534:65534"
  }
  secret {
    name   = "app"
    bytes  = 32
    format = "hex"
    owner  = "65534:65534"
  }

  health_check {
    name = "ready"
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

  backend {
    name  = "client"
    port  = 4222
    allow = ["nats-app"]
  }
  backend {
    name = "route"
    port = 6222
  }
}

# An application in a CVM of its own, which looks for every acknowledged message.
resource "cadre_group" "app" {
  name                = "nats-app"
  replicas            = 1
  deletion_protection = var.deletion_protection

  template {
    compose = templatefile("compose/publish.yaml", {
      agent_image = var.images.cadre-agent
      load_image  = var.images.load
      trust       = module.coordinators.trust
      endpoints   = "nats-0:4222,nats-1:4222,nats-2:4222"
    })
    env           = module.platform.env
    instance_type = "tdx.small"
    os_image      = module.platform.os_image
  }

  update_policy {
    min_ready_seconds = 1
  }
}
