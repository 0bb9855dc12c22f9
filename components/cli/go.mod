module cadre.dev/cli

go 1.26.0

require (
	cadre.dev/attest v0.0.0 // indirect
	cadre.dev/client v0.0.0
	cadre.dev/core v0.0.0
	cadre.dev/platform v0.0.0
	cadre.dev/proto v0.0.0
	github.com/google/uuid v1.6.0
	github.com/spf13/cobra v1.10.1
	golang.org/x/term v0.37.0
)

require (
	github.com/agext/levenshtein v1.2.1 // indirect
	github.com/apparentlymart/go-textseg/v15 v15.0.0 // indirect
	github.com/google/go-tdx-guest v0.3.1 // indirect
	github.com/google/logger v1.1.1 // indirect
	github.com/hashicorp/hcl/v2 v2.24.0 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/mitchellh/go-wordwrap v1.0.1 // indirect
	github.com/spf13/pflag v1.0.9 // indirect
	github.com/zclconf/go-cty v1.16.3 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	golang.org/x/crypto v0.45.0 // indirect
	golang.org/x/mod v0.29.0 // indirect
	golang.org/x/net v0.47.0 // indirect
	golang.org/x/sync v0.18.0 // indirect
	golang.org/x/sys v0.39.0 // indirect
	golang.org/x/text v0.31.0 // indirect
	golang.org/x/tools v0.38.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20250804133106-a7a43d27e69b // indirect
	google.golang.org/grpc v1.76.0
	google.golang.org/protobuf v1.36.10
)

require go.yaml.in/yaml/v3 v3.0.4 // indirect

replace (
	cadre.dev/attest => ../attest
	cadre.dev/client => ../client
	cadre.dev/core => ../core
	cadre.dev/platform => ../platform
	cadre.dev/proto => ../../proto
)
