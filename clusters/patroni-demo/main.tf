# A public web server in two CVMs, the PostgreSQL under Patroni that it uses by two routes,
# an application that measures three ways to it, three coordinators. The specs are those of
# webdemo.hcl, postgres.hcl and app.hcl.
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

# Answers to the public through the platform's gateway, on port 8080. It dials three names:
# webdemo, its own group, postgres-master and postgres-replica.
resource "cadre_group" "webdemo" {
  name                = "webdemo"
  replicas            = var.web_replicas
  deletion_protection = var.deletion_protection

  template {
    compose = templatefile("compose/webdemo.yaml", {
      agent_image   = var.images.cadre-agent
      webdemo_image = var.images.webdemo
      release       = var.web_release
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

  # Members may call each other by the route since the group names itself.
  backend {
    name    = "web"
    port    = 8080
    address = "127.0.0.1"
    allow   = ["webdemo"]
  }

  route {
    name    = "webdemo"
    backend = "web"
  }
}

# Private: only webdemo and app may call it.
resource "cadre_group" "postgres" {
  name                = "postgres"
  replicas            = 3
  deletion_protection = var.deletion_protection
  management_policy   = "PARALLEL"

  template {
    compose = templatefile("compose/postgres.yaml", {
      agent_image   = var.images.cadre-agent
      patroni_image = var.images.patroni
      postgres_bin  = var.postgres_bin
      postgres_gid  = var.postgres_gid
      release       = var.release
      trust         = module.coordinators.trust
    })
    env           = module.platform.env
    instance_type = "tdx.small"
    os_image      = module.platform.os_image
    disk_gb       = 20
  }

  # Replicas first, the leader last, after one hand-over to a member that runs the new revision.
  update_policy {
    type                  = "PROACTIVE"
    max_unavailable_fixed = 1
    min_ready_seconds     = 5
    on_failure            = "PAUSE"
    healthy_deadline      = "5m"
    progress_deadline     = "20m"
  }

  # The driver knows roles, lag, and how leadership is handed over.
  workload {
    kind     = "patroni"
    settings = { version = var.postgres_version }
  }

  preserved_state {
    disk = "data"
  }
  # Destroying is refused until they are given up, or the CVMs are to stay.
  delete_disks = var.delete_disks

  health_check {
    name = "ready"
    http {
      port         = 8008
      request_path = "/readiness"
      expect       = "200"
    }
    check_interval_sec  = 1
    timeout_sec         = 1
    healthy_threshold   = 1
    unhealthy_threshold = 3
  }

  # Healing restarts a hanging Patroni with its database, and starts a stopped CVM again.
  auto_healing_policies {
    service           = "postgres"
    replace           = var.replace
    initial_delay_sec = var.heal_delay
  }
  restart_policy {
    window = var.heal_window
  }

  backend {
    name  = "postgres"
    port  = 5432
    allow = ["webdemo", "app"]
  }

  # Where the leader is. While a hand-over moves it, new connections wait for the new one.
  route {
    name    = "postgres-master"
    backend = "postgres"
    role    = "leader"
    hold    = "5s"
  }

  # The same through a PgBouncer in the caller's CVM: transactions wait too, and fail not.
  route {
    name    = "postgres-pooled"
    backend = "postgres"
    role    = "leader"
    hold    = "5s"
    pooler  = "pgbouncer"

    # The user that may log in there; the database asks this user for no password.
    pooler_users = { app = "" }
  }

  # Members that follow.
  route {
    name    = "postgres-replica"
    backend = "postgres"
    role    = "follower"
  }
}

# An application in a CVM of its own, which writes in three ways at once and measures.
resource "cadre_group" "app" {
  name                = "app"
  replicas            = 1
  deletion_protection = var.deletion_protection

  template {
    compose = templatefile("compose/app.yaml", {
      agent_image = var.images.cadre-agent
      load_image  = var.images.load
      trust       = module.coordinators.trust
      dsn         = "postgres://app@postgres-0,postgres-1,postgres-2/app?target_session_attrs=read-write&sslmode=disable&connect_timeout=2"
      route_dsn   = "postgres://app@postgres-master/app?sslmode=disable&connect_timeout=5"
      writers     = 4
      others      = 2
      interval    = "20ms"
      pooled_dsn  = "postgres://app@postgres-pooled/app?sslmode=disable&connect_timeout=15"
    })
    env           = module.platform.env
    instance_type = "tdx.small"
    os_image      = module.platform.os_image
  }

  update_policy {
    min_ready_seconds = 1
  }
}

# The web server's instances, which the gateway knows by their ids.
resource "cadre_instance" "webdemo" {
  for_each = toset([for n in range(var.web_replicas) : tostring(n)])
  group    = cadre_group.webdemo.name
  ordinal  = tonumber(each.key)
}
