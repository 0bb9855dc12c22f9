image "kafka" {
  from        = "shell"
  description = "Apache Kafka 4.4 on a Java 17 runtime, with Cadre's adapter"
  licenses    = "Apache-2.0"

  # Without what the rest of them needs: fonts, printers, sound, smart cards, certificates.
  debs  = ["openjdk-17-jre-headless", "libstdc++6", "zlib1g"]
  alone = true

  # kafka_2.13 with all that it requires, as Maven resolves it, and the writer of logs.
  jars = [
    "at.yawk.lz4:lz4-java:1.11.2",
    "com.dynatrace.hash4j:hash4j:0.22.0",
    "com.fasterxml.jackson.core:jackson-annotations:2.21",
    "com.fasterxml.jackson.core:jackson-core:2.21.7",
    "com.fasterxml.jackson.core:jackson-databind:2.21.7",
    "com.fasterxml.jackson.dataformat:jackson-dataformat-yaml:2.21.7",
    "com.fasterxml.jackson.datatype:jackson-datatype-jdk8:2.21.7",
    "com.github.ben-manes.caffeine:caffeine:3.2.0",
    "com.github.luben:zstd-jni:1.5.7-17",
    "com.google.re2j:re2j:1.8",
    "com.typesafe.scala-logging:scala-logging_2.13:3.9.6",
    "com.yammer.metrics:metrics-core:2.2.0",
    "commons-beanutils:commons-beanutils:1.11.0",
    "commons-collections:commons-collections:3.2.2",
    "commons-digester:commons-digester:2.1",
    "commons-logging:commons-logging:1.3.5",
    "commons-validator:commons-validator:1.10.1",
    "net.sf.jopt-simple:jopt-simple:5.0.4",
    "net.sourceforge.argparse4j:argparse4j:0.7.0",
    "org.apache.kafka:kafka-clients:4.4.0",
    "org.apache.kafka:kafka-coordinator-common:4.4.0",
    "org.apache.kafka:kafka-group-coordinator-api:4.4.0",
    "org.apache.kafka:kafka-group-coordinator:4.4.0",
    "org.apache.kafka:kafka-metadata:4.4.0",
    "org.apache.kafka:kafka-raft:4.4.0",
    "org.apache.kafka:kafka-server-common:4.4.0",
    "org.apache.kafka:kafka-server:4.4.0",
    "org.apache.kafka:kafka-share-coordinator:4.4.0",
    "org.apache.kafka:kafka-storage-api:4.4.0",
    "org.apache.kafka:kafka-storage:4.4.0",
    "org.apache.kafka:kafka-tools-api:4.4.0",
    "org.apache.kafka:kafka-transaction-coordinator:4.4.0",
    "org.apache.kafka:kafka_2.13:4.4.0",
    "org.apache.logging.log4j:log4j-api:2.25.5",
    "org.apache.logging.log4j:log4j-core:2.25.5",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.5",
    "org.bitbucket.b_c:jose4j:0.9.6",
    "org.hdrhistogram:HdrHistogram:2.2.2",
    "org.jspecify:jspecify:1.0.0",
    "org.pcollections:pcollections:4.0.2",
    "org.scala-lang:scala-library:2.13.18",
    "org.scala-lang:scala-reflect:2.13.18",
    "org.slf4j:slf4j-api:1.7.36",
    "org.xerial.snappy:snappy-java:1.1.10.7",
    "org.yaml:snakeyaml:2.5",
  ]

  drop = [
    "usr/share/man/**", "usr/share/info/**", "usr/share/lintian/**", "usr/share/locale/**", "usr/share/bug/**", "usr/share/gdb/**",
    "usr/share/doc/*/changelog*", "usr/share/doc/*/NEWS*", "usr/share/doc/*/README*", "usr/share/doc/*/TODO*", "usr/share/applications/**",
    "usr/share/binfmts/**", "usr/share/application-registry/**", "usr/share/mime-info/**", "usr/share/gcc/**",
    "usr/lib/jvm/java-17-openjdk-amd64/lib/libfontmanager.so", "usr/lib/jvm/java-17-openjdk-amd64/lib/libjavajpeg.so",
    "usr/lib/jvm/java-17-openjdk-amd64/lib/liblcms.so", "usr/lib/jvm/java-17-openjdk-amd64/lib/libjsound.so",
    "usr/lib/jvm/java-17-openjdk-amd64/lib/libfreetype.so", "usr/lib/jvm/java-17-openjdk-amd64/lib/libj2pcsc.so",
  ]

  program "cadre-kafka-adapter" {
    module  = "components/adapters"
    package = "cmd/cadre-kafka-adapter"
  }

  # kafka-java CLASS ARGUMENT...: a class of Kafka's jars, such as kafka.Kafka.
  file "usr/local/bin/kafka-java" {
    mode    = "0755"
    content = <<-END
      #!/bin/sh
      exec java $KAFKA_JVM -cp "/usr/share/java/*" "$@"
    END
  }
  link "usr/bin/java" {
    target = "/usr/lib/jvm/java-17-openjdk-amd64/bin/java"
  }

  # A volume that is mounted here takes this owner.
  directory "var/lib/kafka" {
    mode  = "0700"
    owner = "65534:65534"
  }

  run_as  = "65534:65534"
  command = ["kafka-java", "kafka.Kafka"]
  ports   = ["9092/tcp", "9093/tcp"]
  try     = [["cadre-kafka-adapter", "--version"], ["kafka-java", "-version"], ["kafka-java", "kafka.Kafka", "--version"]]
}
