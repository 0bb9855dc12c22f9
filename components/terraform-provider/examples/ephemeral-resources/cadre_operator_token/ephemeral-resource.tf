ephemeral "cadre_operator_token" "demo" {
  context = "demo"
}

provider "cadre" {
  alias   = "by_token"
  context = "demo"
  token   = ephemeral.cadre_operator_token.demo.token
}
