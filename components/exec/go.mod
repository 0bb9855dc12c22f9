module cadre.dev/exec

go 1.26.0

require cadre.dev/core v0.0.0

require go.yaml.in/yaml/v3 v3.0.4

replace cadre.dev/core => ../core
