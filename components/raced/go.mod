module cadre.dev/raced

go 1.26.0
