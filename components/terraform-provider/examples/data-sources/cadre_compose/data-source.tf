data "cadre_compose" "web" {
  cluster = "demo"
  group   = "web"
  compose = <<-EOT
    services:
      web:
        image: docker.io/library/nginx:1.29@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
  EOT
}

output "hash" {
  value = data.cadre_compose.web.hash
}
