output "compose" {
  value = provider::cadre::pin(<<-EOT
    services:
      web:
        image: docker.io/library/nginx:1.29@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
  EOT
  )
}
