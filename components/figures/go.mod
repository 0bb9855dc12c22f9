module cadre.dev/figures

go 1.26.0
