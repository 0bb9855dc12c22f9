output "urls" {
  description = "The page of each instance of webdemo."
  value = { for key, i in cadre_instance.webdemo :
    "the page, by ${i.id}" => replace(module.platform.url, "NAME", "${i.instance_id}-8080")
  }
}

output "try" {
  description = "What to type to ask webdemo through the platform's gateway."
  value = merge([for key, i in cadre_instance.webdemo : {
    for path in ["hello", "all", "db"] :
    "${path} of ${i.id}" => "curl ${replace(module.platform.curl, "NAME", "${i.instance_id}-8080")}${path}"
  }]...)
}

output "revision" {
  description = "The revision that the database's group asks for."
  value       = cadre_group.postgres.revision
}
