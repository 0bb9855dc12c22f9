output "facts" {
  description = "The facts, for the module coordinators and for what prints addresses."
  value       = local.facts
}

output "driver" {
  description = "The name of the platform, for the argument platform of a group."
  value       = lookup(local.facts, "platform", "phala")
}

output "os_image" {
  description = "The guest image of all CVMs."
  value       = local.facts.os_image
}

output "env" {
  description = "The environment of a group: where coordinators are found. It is not measured, and never trusted."
  value = {
    CADRE_GATEWAY_DOMAIN  = local.facts.gateway_domain
    CADRE_GATEWAY_ADDRESS = local.facts.gateway_address_in_cvm
    CADRE_RENDEZVOUS      = local.facts.rendezvous_url
    CADRE_RENDEZVOUS_CA   = local.facts.rendezvous_ca_base64
  }
}

# A word of a shell's line, quoted where a shell would take it apart.
locals {
  ca_file = lookup(local.facts, "gateway_ca_file", "CA.pem")
  ca_word = can(regex("^[-+=./,:@%_0-9A-Za-z]+$", local.ca_file)) ? local.ca_file : "'${replace(local.ca_file, "'", "'\\''")}'"
}

output "curl" {
  description = "Options of curl that reach a name below the gateway's domain: replace NAME."
  value = local.facts.gateway_address == "" ? "https://NAME.${local.facts.gateway_domain}/" : join(" ", [
    "--cacert ${local.ca_word}",
    "--resolve NAME.${local.facts.gateway_domain}:${split(":", local.facts.gateway_address)[1]}:${split(":", local.facts.gateway_address)[0]}",
    "https://NAME.${local.facts.gateway_domain}:${split(":", local.facts.gateway_address)[1]}/",
  ])
}

output "url" {
  description = "URL of a name below the gateway's domain: replace NAME."
  value       = "https://NAME.${local.facts.gateway_domain}${local.facts.gateway_address == "" ? "" : ":${split(":", local.facts.gateway_address)[1]}"}/"
}
