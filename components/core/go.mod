module cadre.dev/core

go 1.26.0

require pgregory.net/rapid v1.2.0
