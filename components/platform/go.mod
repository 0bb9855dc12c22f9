module cadre.dev/platform

go 1.26.0
