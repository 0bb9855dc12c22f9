data "cadre_health_check" "ready" {
  name = "ready"
  http {
    port         = 8080
    request_path = "/ready"
  }
}

resource "cadre_group" "api" {
  name              = "api"
  replicas          = 2
  health_check_json = [data.cadre_health_check.ready.json]
  template {
    compose       = <<-EOT
      services:
        api:
          image: example.org/api@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
    EOT
    instance_type = "tdx.small"
    os_image      = "dstack-0.5.9"
  }
}
