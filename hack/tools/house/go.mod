module github.com/fettle-io/fettle/hack/tools/house

go 1.26.0
