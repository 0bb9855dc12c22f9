module cadre.dev/adapters

go 1.26.0

require cadre.dev/core v0.0.0

replace cadre.dev/core => ../core
