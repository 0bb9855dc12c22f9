terraform {
  required_providers {
    cadre = { source = "cadre.dev/cadre/cadre" }
  }
}

# The cluster is the one that `cadre` knows by this name, in ~/.config/cadre.
provider "cadre" {
  context = "demo"
}
