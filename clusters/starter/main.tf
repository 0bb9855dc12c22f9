# A public web API in two CVMs, five private workers that it calls by a route, three coordinators.
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
  vmm    = var.vmm
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

# Answers to the public through the platform's gateway, on port 8080, and calls the workers at
# http://worker:9090/hello: one name, whichever of them answers.
resource "cadre_group" "api" {
  name                = "api"
  platform            = module.platform.driver
  replicas            = var.api_replicas
  deletion_protection = var.deletion_protection

  template {
    compose = templatefile("compose/api.yaml", {
      agent_image   = var.images.cadre-agent
      webdemo_image = var.images.webdemo
      release       = var.release
      trust         = module.coordinators.trust
    })
    env           = module.platform.env
    instance_type = "tdx.small"
    os_image      = module.platform.os_image
  }

  # One at a time, each for 5 s before the next.
  update_policy {
    max_unavailable_fixed = 1
    min_ready_seconds     = 5
  }

  health_check {
    name = "web"
    http {
      port         = 8080
      request_path = "/healthz"
    }
    check_interval_sec = 2
    timeout_sec        = 2
  }

  # Healing restarts a CVM that stopped, is silent or fails its check, on its disk. With
  # replace = "auto" healing may give up a disk.
  auto_healing_policies {
    health_check = "web"
  }
}

# Private: its port is on the loopback of each CVM, and the route admits only members of api.
resource "cadre_group" "worker" {
  name                = "worker"
  platform            = module.platform.driver
  replicas            = var.worker_replicas
  deletion_protection = var.deletion_protection
  management_policy   = "PARALLEL"

  template {
    compose = templatefile("compose/worker.yaml", {
      agent_image   = var.images.cadre-agent
      webdemo_image = var.images.webdemo
      release       = var.release
      trust         = module.coordinators.trust
    })
    env           = module.platform.env
    instance_type = "tdx.small"
    os_image      = module.platform.os_image
  }

  # Two at a time. With worker_updates = "OPPORTUNISTIC" a worker moves on request: see
  # cadre_instance below.
  update_policy {
    type                  = var.worker_updates
    max_unavailable_fixed = 2
    min_ready_seconds     = 5
  }

  backend {
    name    = "worker"
    port    = 9090
    address = "127.0.0.1"
    allow   = ["api"]
  }

  # The name that api dials: worker:9090. It leads to the healthy workers.
  route {
    name    = "worker"
    backend = "worker"
  }

  health_check {
    name = "web"
    http {
      port         = 9090
      request_path = "/healthz"
    }
    check_interval_sec = 2
    timeout_sec        = 2
  }

  auto_healing_policies {
    health_check = "web"
  }
}

# The API's instances, which the gateway knows by their ids.
resource "cadre_instance" "api" {
  for_each = toset([for n in range(var.api_replicas) : tostring(n)])
  group    = cadre_group.api.name
  ordinal  = tonumber(each.key)
}

# Each worker alone: terraform apply -target='cadre_instance.worker["1"]'.
resource "cadre_instance" "worker" {
  for_each = toset([for n in range(var.worker_replicas) : tostring(n)])
  group    = cadre_group.worker.name
  ordinal  = tonumber(each.key)
  revision = cadre_group.worker.revision
}
