module cadre.dev/demo

go 1.26.0

require github.com/jackc/pgx/v5 v5.7.6

require (
	github.com/google/go-tdx-guest v0.3.1 // indirect
	github.com/google/logger v1.1.1 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	golang.org/x/net v0.47.0 // indirect
	golang.org/x/sys v0.39.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20250804133106-a7a43d27e69b // indirect
	google.golang.org/grpc v1.76.0 // indirect
	google.golang.org/protobuf v1.36.10 // indirect
)

require (
	cadre.dev/attest v0.0.0 // indirect
	cadre.dev/client v0.0.0
	cadre.dev/core v0.0.0
	cadre.dev/proto v0.0.0 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	golang.org/x/crypto v0.45.0 // indirect
	golang.org/x/term v0.37.0
	golang.org/x/text v0.31.0 // indirect
)

replace cadre.dev/core => ../core

replace cadre.dev/client => ../client

replace cadre.dev/attest => ../attest

replace cadre.dev/platform => ../platform

replace cadre.dev/proto => ../../proto
