output "hash" {
  value = provider::cadre::compose_hash(jsonencode({
    manifest_version = 2, runner = "docker-compose", name = "demo", docker_compose_file = "services: {}"
  }))
}
