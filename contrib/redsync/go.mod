module github.com/redquorum/redquorum/contrib/redsync

go 1.26.0

require (
	github.com/go-redsync/redsync/v4 v4.18.1
	github.com/gomodule/redigo v1.9.3
	github.com/redquorum/redquorum v0.0.0
	github.com/stretchr/testify v1.12.1
	golang.org/x/sync v0.24.0
)

require (
	github.com/hashicorp/errwrap v1.0.0 // indirect
	github.com/hashicorp/go-multierror v1.1.1 // indirect
	github.com/yuin/gopher-lua v1.1.2 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace github.com/redquorum/redquorum => ../..

// Only redsync's own tests need these; `go mod tidy` looks at them all the same. redsync v4.18.1
// asks for v1.0.79 of both, and the proxy does not have rueidiscompat v1.0.79.
replace (
	github.com/redis/rueidis => github.com/redis/rueidis v1.0.78
	github.com/redis/rueidis/rueidiscompat => github.com/redis/rueidis/rueidiscompat v1.0.78
)
