# Etcd members, and clients that check all answers: the specs of etcd.hcl and app.hcl.
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

resource "cadre_group" "etcd" {
  name                = "etcd"
  replicas            = var.members
  deletion_protection = var.deletion_protection
  # The first members need each other to form a quorum: none is ready alone.
  management_policy = "PARALLEL"

  template {
    compose = templatefile("compose/etcd.yaml", {
      agent_image = var.images.cadre-agent
      etcd_image  = var.images.etcd
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
    max_unavailable_fixed = var.surge > 0 ? 0 : 1
    max_surge_fixed       = var.surge
    min_ready_seconds     = 3
    on_failure            = "PAUSE"
    healthy_deadline      = "5m"
    progress_deadline     = "20m"
  }

  # The members' own ports, 2379 and 2380, follow from the workload.
  workload {
    kind     = "etcd"
    settings = { version = var.etcd_version }
  }

  preserved_state {
    disk = "data"
  }
  # Destroying is refused until they are given up, or the CVMs are to stay.
  delete_disks = var.delete_disks

  # /readyz needs seven seconds to say that there is no quorum, /health says so at once. A quota that is reached is left
  # out: the agent reports it, and a check that failed by it would fail the step of the larger quota too.
  health_check {
    name = "ready"
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

  backend {
    name  = "etcd"
    port  = 2379
    allow = ["etcd-app"]
  }
}

# An application in a CVM of its own, which keeps the history of all answers.
resource "cadre_group" "app" {
  name                = "etcd-app"
  replicas            = 1
  deletion_protection = var.deletion_protection

  template {
    compose = templatefile("compose/registers.yaml", {
      agent_image = var.images.cadre-agent
      load_image  = var.images.load
      trust       = module.coordinators.trust
      endpoints   = "etcd-0:2379,etcd-1:2379,etcd-2:2379"
    })
    env           = module.platform.env
    instance_type = "tdx.small"
    os_image      = module.platform.os_image
  }

  update_policy {
    min_ready_seconds = 1
  }
}
