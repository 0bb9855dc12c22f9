module cadre.dev/overlay

go 1.26.0

require (
	github.com/hashicorp/yamux v0.1.2
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.50.0
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/davecgh/go-spew v1.1.2-0.20180830191138-d8f796af33cc // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/pion/dtls/v2 v2.2.12 // indirect
	github.com/pion/mdns/v2 v2.0.7 // indirect
	github.com/pion/randutil v0.1.0 // indirect
	github.com/pion/transport/v2 v2.2.4 // indirect
	github.com/pmezard/go-difflib v1.0.1-0.20181226105442-5d4384ee4fb2 // indirect
	github.com/wlynxg/anet v0.0.3 // indirect
	golang.org/x/crypto v0.59.0 // indirect
	golang.org/x/text v0.44.0 // indirect
)

require (
	cadre.dev/raced v0.0.0
	github.com/apernet/quic-go v0.57.2-0.20260111184307-eec823306178
	github.com/coder/websocket v1.8.14
	github.com/pion/ice/v3 v3.0.16
	github.com/pion/logging v0.2.4
	github.com/pion/stun/v2 v2.0.0
	github.com/pion/transport/v3 v3.0.7
	github.com/pion/turn/v3 v3.0.3
	golang.org/x/net v0.62.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1
)

replace cadre.dev/raced => ../raced
