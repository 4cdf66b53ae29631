// EXPECT_SAYS: a message holds these words.
#pragma once

#include <gtest/gtest.h>

#include <string>

#define EXPECT_SAYS(text, fragment) EXPECT_NE((text).find(fragment), std::string::npos) << (text)
