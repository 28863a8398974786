// Outcomes as IOStatus.
#pragma once

#include <string>

#include "bridge.h"
#include "rocksdb/io_status.h"

namespace zonda {

using rocksdb::IOStatus;

inline zonda_text Text(const std::string& text) { return {text.data(), text.size()}; }

// Takes the message.
IOStatus ToStatus(zonda_outcome outcome);

// The same where RocksDB asks whether something exists: `NotFound` instead of `PathNotFound`.
IOStatus ToExistence(zonda_outcome outcome);

}  // namespace zonda
