output "try" {
  description = "What to type to reach each instance of api through the platform's gateway."
  value = { for key, i in cadre_instance.api :
    i.id => "curl ${replace(module.platform.curl, "NAME", "${i.instance_id}-8080")}"
  }
}
