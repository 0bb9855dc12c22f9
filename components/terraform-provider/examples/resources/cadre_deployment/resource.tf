# The document is often a file: document = file("shop.hcl").
resource "cadre_deployment" "shop" {
  reason    = "release 2"
  variables = { release = "2" }
  document  = <<-EOT
    variable "release" {}

    deployment "shop" {
      group "db" {
        replicas = 3
        template {
          compose       = "services:\n  db:\n    image: example.org/db@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n"
          instance_type = "tdx.small"
          os_image      = "dstack-0.5.9"
        }
        backend "sql" {
          port  = 5432
          allow = ["web"]
        }
        route "db" {
          backend = "sql"
        }
      }

      group "web" {
        replicas = 2
        template {
          compose       = "services:\n  web:\n    image: example.org/web@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n    environment: { RELEASE: $RELEASE }\n"
          env           = { RELEASE = var.release }
          instance_type = "tdx.small"
          os_image      = "dstack-0.5.9"
        }
      }
    }
  EOT
}
